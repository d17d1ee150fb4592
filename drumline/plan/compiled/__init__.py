"""What the texts of compiled programs say."""
