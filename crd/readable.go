package crd

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

// Servers take some texts and numbers that a Go type cannot read. This file has the words that refuse
// them. They stand in allOf, where no tag or marker replaces them.

const (
	clock = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}`
	zone  = `(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`

	// The format date-time allows small letters and any zone.
	timePattern      = clock + `(\.[0-9]+)?` + zone
	microTimePattern = clock + `\.[0-9]{6}` + zone

	// A sum of six such terms fits into 64 bits of nanoseconds. Longer durations have the form in which
	// Go writes them.
	durationPattern = `^[+-]?(0|(([0-3]?[0-9]{1,5}(\.[0-9]*)?|\.[0-9]+)h|([0-9]{1,7}(\.[0-9]*)?|\.[0-9]+)m|` +
		`([0-9]{1,9}(\.[0-9]*)?|\.[0-9]+)s|([0-9]{1,12}(\.[0-9]*)?|\.[0-9]+)ms|` +
		`([0-9]{1,15}(\.[0-9]*)?|\.[0-9]+)[uµμ]s|([0-9]{1,18}(\.[0-9]*)?|\.[0-9]+)ns){1,6}|` +
		`([4-9][0-9]{5}|1[0-9]{6}|2[0-4][0-9]{5}|25[0-5][0-9]{4}|256[01][0-9]{3}|25620[0-3][0-9]|256204[0-6])h` +
		`([0-5]?[0-9]m)?([0-5]?[0-9](\.[0-9]{1,9})?s)?|2562047h([0-3]?[0-9]|4[0-6])m[0-5]?[0-9](\.[0-9]{1,9})?s|` +
		`2562047h47m([0-9]|1[0-5])(\.[0-9]{1,9})?s|2562047h47m16(\.[0-7][0-9]{0,8}|\.85477580[0-7])?s)$|` +
		`^-2562047h47m16\.854775808s$`

	// The server's own pattern of quantities allows fractions and any number as an exponent.
	exponentPattern = `^[^eE]*(Ei?|[eE][+-]?[0-9]{1,3})?$`

	numberPattern = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`
	boolPattern   = "^(true|false)$"
	// integersFrom begins the pattern of integers: no other one begins with it.
	integersFrom = "^(0|[1-9]|"
	// The greatest numbers of a type have the form in which Go writes them.
	float32Pattern = `^-?((0|[1-9][0-9]{0,20})(\.[0-9]+)?([eE]-[0-9]{1,3})?|` +
		`[0-9](\.[0-9]+)?[eE]\+?([0-2]?[0-9]|3[0-7])|([0-2](\.[0-9]+)?|3(\.[0-3][0-9]*)?|3\.4028235)[eE]\+?38)$`
	float64Pattern = `^-?((0|[1-9][0-9]{0,20})(\.[0-9]+)?([eE]-[0-9]{1,3})?|` +
		`[0-9](\.[0-9]+)?[eE]\+?([0-2]?[0-9]?[0-9]|30[0-7])|` +
		`(0(\.[0-9]+)?|1(\.[0-6][0-9]*)?|1\.7([0-8][0-9]*)?|1\.79([0-6][0-9]*)?|1\.7976931348623157)[eE]\+?308)$`
)

// matching returns the schema of strings that a Go type reads.
func matching(format, pattern string) *Schema {
	return &Schema{Type: "string", Format: format, AllOf: []*Schema{{Pattern: pattern}}}
}

// int32OrString are the numbers of intstr.IntOrString.
func int32OrString() *Schema {
	return &Schema{Minimum: bound(math.MinInt32), Maximum: bound(math.MaxInt32)}
}

// quotedPattern returns the pattern of the strings that encoding/json reads as a value of a type, by
// the option string.
func quotedPattern(kind reflect.Kind, bits int) string {
	switch most := uint64(math.MaxUint64) >> (64 - bits); kind {
	case reflect.Bool:
		return boolPattern
	case reflect.String: // json.Number
		return numberPattern
	case reflect.Float32:
		return float32Pattern
	case reflect.Float64:
		return float64Pattern
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return integersFrom + upTo(most) + ")$"
	default:
		return integersFrom + upTo(most/2) + "|-([1-9]|" + upTo(most/2+1) + "))$"
	}
}

// upTo returns a pattern of the integers from 10 to most, which has at least three digits.
func upTo(most uint64) string {
	digits := strconv.FormatUint(most, 10)
	parts := fmt.Sprintf("[1-9][0-9]{1,%d}", len(digits)-2)
	for i, lowest := 0, byte('1'); i < len(digits); i, lowest = i+1, '0' {
		if digits[i] > lowest {
			parts += fmt.Sprintf("|%s[%c-%c][0-9]{%d}", digits[:i], lowest, digits[i]-1, len(digits)-1-i)
		}
	}
	return parts + "|" + digits
}

// saysReadable reports whether a schema says only what some Go type can read.
func saysReadable(s *Schema) bool {
	if s.same(int32OrString()) {
		return true
	}
	p := s.Pattern
	known := strings.HasPrefix(p, integersFrom) || p == boolPattern
	for _, o := range []string{timePattern, microTimePattern, durationPattern, exponentPattern, numberPattern,
		float32Pattern, float64Pattern} {
		known = known || p == o
	}
	return known && (&Schema{Pattern: p}).same(s)
}

// asked returns a schema without the words about what its Go type can read, if the former schema has no
// such words. An older release of the package wrote none, and no program could use what they refuse.
func asked(was, is *Schema) *Schema {
	if len(is.AllOf) == 0 || slices.ContainsFunc(was.AllOf, saysReadable) {
		return is
	}
	s := *is
	s.AllOf = slices.DeleteFunc(slices.Clone(s.AllOf), saysReadable)
	return &s
}

// held returns an error if a schema allows numbers that the Go type of its values cannot hold.
func (a *application) held(d directive, s *Schema) error {
	t := a.member.Type
	for i := 0; t != nil; i++ {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if i == len(d.path) {
			break
		}
		if k := t.Kind(); k != reflect.Slice && k != reflect.Array && k != reflect.Map {
			return nil
		}
		t = t.Elem()
	}
	if t == nil || jsonfields.Encodes(t) {
		return nil
	}
	own := scalar(t.Kind())
	if own == nil || own.Type != s.Type || s.Type != "integer" && s.Type != "number" {
		return nil
	}
	if low, high := lowestOf(own).at, highestOf(own).at; lowestOf(s).at < low || highestOf(s).at > high {
		return fmt.Errorf("%s holds only numbers from %v to %v", t, low, high)
	}
	return nil
}
