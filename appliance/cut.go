package appliance

import (
	"math"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// Bounds of what a member tells for people.
const (
	maxTold     = 1024 // of one list or map; of figures over time there are more
	maxToldRows = 1 << 14
	maxToldText = 400 // bytes
	// maxFigure is more than any figure can be: bytes of all disks, tokens of all days. Sums of such stay numbers.
	maxFigure = 1e15
	// Times of other years are none: JSON has no more than four digits for them.
	firstYear, lastYear = 2000, 2200
)

// cut brings whatever v points to within bounds: lists and maps lose their ends, texts too, and what no page or terminal
// should be given becomes a space. A figure or time that cannot be is not known, where that can be said, and else none.
func cut(v any) {
	c := cutter{rows: maxToldRows}
	c.value(reflect.ValueOf(v).Elem())
}

// cutter counts the rows of all lists: lists of lists, each within its bound, would make millions.
type cutter struct{ rows int }

var timeType = reflect.TypeFor[time.Time]()

func (c *cutter) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(cutText(v.String()))
	case reflect.Int, reflect.Int64, reflect.Float64:
		if !isFigure(v) {
			v.SetZero()
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if !isFigure(v.Elem()) {
			v.SetZero()
			return
		}
		c.value(v.Elem())
	case reflect.Slice:
		c.list(v)
	case reflect.Map:
		cutMap(v)
	case reflect.Struct:
		if v.Type() == timeType {
			cutTime(v)
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				c.value(f)
			}
		}
	}
}

func (c *cutter) list(v reflect.Value) {
	most := maxTold
	switch v.Type().Elem().Kind() {
	case reflect.Struct:
		most = min(most, c.rows)
		c.rows -= min(most, v.Len())
	case reflect.Pointer: // figures over time
		most = 2 * maxTold
	}
	if v.Len() > most {
		v.SetLen(most)
	}
	for i := range v.Len() {
		c.value(v.Index(i))
	}
}

// isFigure is true as well of what is no number.
func isFigure(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return v.Int() <= maxFigure && v.Int() >= -maxFigure
	case reflect.Float64:
		return math.Abs(v.Float()) <= maxFigure // NaN is not
	}
	return true
}

func cutTime(v reflect.Value) {
	if at, ok := v.Interface().(time.Time); ok && (at.Year() < firstYear || at.Year() > lastYear) {
		v.SetZero()
	}
}

// cutMap knows maps from texts to numbers, the only ones there are.
func cutMap(v reflect.Value) {
	for _, key := range v.MapKeys() {
		if v.Len() > maxTold || key.String() != cutText(key.String()) || !isFigure(v.MapIndex(key)) {
			v.SetMapIndex(key, reflect.Value{})
		}
	}
}

func cutText(s string) string {
	if len(s) > maxToldText {
		s = s[:maxToldText]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
