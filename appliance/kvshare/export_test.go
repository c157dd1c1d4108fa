package kvshare

// Tidy looks at once for what the store and the engines have given up.
func (s *Share) Tidy() { s.forgetGone() }
