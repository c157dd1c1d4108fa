package modelcopy

import "fmt"

// Bytes writes a number of bytes for people.
func Bytes(n int64) string {
	unit, value := "B", float64(n)
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		unit, value = next, value/1024
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
