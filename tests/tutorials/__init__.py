"""The frameworks' own RAG tutorials, with texts of our own: a real client asks a server that plays the model."""
