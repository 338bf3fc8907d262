package crd

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"slices"
	"strings"
)

// decodeJSON decodes a value. It keeps the text of numbers.
func decodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// sameJSON reports whether two texts encode the same value.
func sameJSON(a, b []byte) bool {
	va, erra := decodeJSON(a)
	vb, errb := decodeJSON(b)
	return erra == nil && errb == nil && equalValues(va, vb)
}

func equalValues(a, b any) bool {
	na, oka := a.(json.Number)
	nb, okb := b.(json.Number)
	if oka && okb {
		return rational(na).Cmp(rational(nb)) == 0
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalValues)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !equalValues(v, w) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

// rational returns the exact value of a number, without rounding.
func rational(n json.Number) *big.Rat {
	// An exponent can be so large that the exact number fills the memory. Such a number
	// is not converted exactly.
	if i := strings.IndexAny(n.String(), "eE"); i >= 0 && len(n.String())-i > 5 {
		f, _ := n.Float64()
		if r := new(big.Rat).SetFloat64(f); r != nil {
			return r
		}
		return new(big.Rat)
	}
	if r, ok := new(big.Rat).SetString(n.String()); ok {
		return r
	}
	return new(big.Rat)
}
