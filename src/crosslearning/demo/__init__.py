"""Shows: small studies, told in one table and one picture, of what the library is for."""
