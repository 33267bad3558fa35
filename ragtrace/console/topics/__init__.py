"""Groups the stored questions by topic, and says which topics fail."""
