"""Moving threads: from one id to another, from one database to another, into a file and back."""
