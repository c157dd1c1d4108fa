package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// setScalar reads text into v, or leaves v as it is. The error starts with a verb: what the text is or is not.
func setScalar(v reflect.Value, f field, text string) error {
	value, err := scalar(v.Type(), f, text)
	if err == nil {
		v.Set(reflect.ValueOf(value))
	}
	return err
}

func scalar(t reflect.Type, f field, text string) (any, error) {
	switch {
	case t == durationType:
		return parseDuration(text)
	case f.size:
		return ParseSize(text)
	}
	switch t.Kind() {
	case reflect.Bool:
		return parseBool(text)
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 32)
		if errors.Is(err, strconv.ErrRange) {
			return nil, errors.New("is beyond any setting")
		}
		if err != nil {
			return nil, errors.New("is not a whole number")
		}
		return int(n), nil
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, errors.New("is not a number")
		}
		return n, nil
	}
	return text, nil
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("is not a duration: write it with its unit, such as 20s or 10m")
	}
	if d < 0 {
		return 0, errors.New("is a time before now: take the minus away")
	}
	return d, nil
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on":
		return true, nil
	case "false", "no", "off":
		return false, nil
	}
	return false, errors.New("is neither true nor false")
}

// formatDuration writes 10m and not 10m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// quote shows a stranger's text in a message: bounded, no control characters.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return strconv.Quote(text)
}

// keyText shows a key, quoted only where it needs to be.
func keyText(key string) string {
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:", r)
	}
	if key == "" || len(key) > 60 || strings.ContainsFunc(key, odd) {
		return quote(key)
	}
	return key
}

// wanted names what a value of this type looks like.
func wanted(t reflect.Type, f field) string {
	switch {
	case t == durationType:
		return "a duration such as 20s"
	case f.size:
		return "a size such as 8GiB"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "a block of keys (" + strings.Join(names(t), ", ") + ")"
	case reflect.Map:
		return "a block of names and values"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "text"
}

func names(t reflect.Type) []string {
	var list []string
	for _, f := range fieldsOf(t) {
		list = append(list, f.name)
	}
	return list
}

// wrong joins what is wanted with what is there, without showing the text of a secret.
func wrong(f field, text string, err error) string {
	if f.secret {
		return err.Error()
	}
	return fmt.Sprintf("%s %s", quote(text), err)
}
