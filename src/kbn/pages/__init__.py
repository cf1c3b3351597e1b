"""Pages: plots and tables a person looks at, shared by the lab and the pipeline."""
