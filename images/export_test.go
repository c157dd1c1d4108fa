package images

// Keep writes an image down without fetching it.
func Keep(b *Book, h Held) error { return b.keep(h) }
