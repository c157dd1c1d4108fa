package imagecopy

import (
	"io"

	"viiwork/images/papers"
)

// Unpack takes an archive apart with room for 16 MiB.
func Unpack(dir string, image *papers.Image, archive io.Reader) (map[string]int64, error) {
	u := unpacking{dir: dir, image: image, budget: 16 << 20, wrote: func(int64) {}, sizes: map[string]int64{}}
	return u.sizes, u.all(archive)
}
