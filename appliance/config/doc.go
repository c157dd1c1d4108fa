// Package config is viiwork.yaml: the one file that describes a machine. It reads the file strictly, lays the
// environment over it and checks the whole, so that everything below gets plain values and nobody else sees YAML.
//
// It promises: every fault is reported at once, at its file:line:column and in words to act on; a file with one fault
// is refused whole; every value knows where it came from (default, file, environment); hostile text is bounded before
// it is looked at; no secret appears in an error, in a listing or in a log.
//
// It does not look at the machine: which cards exist and what fits on them is judged elsewhere and reported through
// [Config.Fault] at the same positions. Files are touched by [Load], which also reads the mesh secret, and by
// [Config.CheckFiles].
//
// One walk over the struct tags of [Config] carries it all: reading, environment names, nearest keys and listings know
// the same keys by construction. A Config is a value to read; nothing changes it after Load.
package config
