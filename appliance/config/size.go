package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units from large to small, so that a size is written in the largest that leaves no rest.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
}

// maxSize keeps arithmetic on sizes far from overflow: one pebibyte.
const maxSize = 1 << 50

// ParseSize reads 8GiB, 1.5 GB or plain bytes. A bare letter is refused: 8G is 8e9 to one reader and 8<<30 to another.
func ParseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit, digits := text[len(digits):], strings.TrimSpace(digits)
	factor, ok := unitBytes(unit)
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || strings.ContainsAny(digits, "xXpP_+-eE") {
		return 0, errSize(unit, digits)
	}
	bytes := n * float64(factor)
	if bytes > maxSize || math.IsNaN(bytes) {
		return 0, fmt.Errorf("is more than a machine has")
	}
	if bytes != math.Trunc(bytes) {
		return 0, fmt.Errorf("is not a whole number of bytes")
	}
	return int64(bytes), nil
}

func unitBytes(unit string) (int64, bool) {
	if unit == "" || unit == "B" {
		return 1, true
	}
	for _, u := range units {
		if strings.EqualFold(u.name, unit) {
			return u.bytes, true
		}
	}
	return 0, false
}

func errSize(unit, digits string) error {
	if len(unit) == 1 && strings.Contains("kKmMgGtT", unit) && len(digits) < 20 {
		unit = strings.ToUpper(unit)
		return fmt.Errorf("has half a unit: write %s%siB or %s%sB", digits, unit, digits, unit)
	}
	return fmt.Errorf("is not a size: write it as 8GiB, 512MiB or bytes")
}

// formatSize writes bytes so that ParseSize reads the same number.
func formatSize(bytes int64) string {
	for _, u := range units {
		if bytes >= u.bytes && bytes%u.bytes == 0 {
			return fmt.Sprintf("%d%s", bytes/u.bytes, u.name)
		}
	}
	return strconv.FormatInt(bytes, 10)
}
