package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
)

var shardName = regexp.MustCompile(`^(.*)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// maxShards is above any model published: a thousand parts of the usual 50 GB.
const maxShards = 1000

// findShards lists the files of the model that starts at path, and reports those that are not there.
func findShards(path string) ([]string, error) {
	if err := present(path); err != nil {
		return nil, err
	}
	m := shardName.FindStringSubmatch(path)
	if m == nil {
		return []string{path}, nil
	}
	number, _ := strconv.Atoi(m[2])
	total, _ := strconv.Atoi(m[3])
	if number != 1 {
		return nil, fmt.Errorf("%s is part %d of a model: set path to part 1, %s", path, number, shard(m[1], 1, total))
	}
	if total < 1 || total > maxShards {
		return nil, fmt.Errorf("%s claims to have %d parts: set path to another file", path, total)
	}
	shards := make([]string, total)
	for i := range shards {
		shards[i] = shard(m[1], i+1, total)
		if err := present(shards[i]); err != nil {
			return nil, fmt.Errorf("part %d of %d is missing: %w", i+1, total, err)
		}
	}
	return shards, nil
}

func shard(prefix string, n, total int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, n, total)
}

// present says what is wrong with a path before it is opened as a model.
func present(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: correct path or models_dir, or download it: %w", path, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return unreadable(path)
	case err != nil:
		return fmt.Errorf("looking at the model file: %w", err)
	case info.IsDir():
		return fmt.Errorf("%s is a directory: set path to the GGUF file in it", path)
	case !info.Mode().IsRegular():
		// Opening a pipe would wait for a writer that never comes.
		return fmt.Errorf("%s is no regular file: set path to a GGUF file", path)
	}
	return nil
}

func unreadable(path string) error {
	return fmt.Errorf("%s cannot be read by user %d: give that user access to it and its directories: %w", path, os.Getuid(), fs.ErrPermission)
}
