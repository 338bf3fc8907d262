package jsonfields

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// readOptions make go-json-experiment read the output of encoding/json. Strings may hold
// invalid UTF-8, because old API servers stored such strings without a check.
var readOptions = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true),
	jsontext.AllowDuplicateNames(true),
	v1.FormatByteArrayAsArray(true),
	v1.FormatBytesWithLegacySemantics(true),
	v1.FormatDurationAsNano(true),
	v1.StringifyWithLegacySemantics(true),
	v1.ParseTimeWithLooseRFC3339(true),
)

// ReadOptions returns the options with which go-json-experiment reads values of t
// as encoding/json does. They cost nothing for types with plain tags.
func ReadOptions(t reflect.Type) json.Options {
	options := readOptions
	lenient, numbers := false, false
	for _, t := range Reachable(t) {
		numbers = numbers || t == reflect.TypeFor[stdjson.Number]()
		lenient = lenient || isOdd(t)
	}
	if lenient {
		// This option checks the syntax of each value before it reads the value, which
		// doubles the work.
		options = json.JoinOptions(options, v1.ReportErrorsWithLegacySemantics(true))
	}
	if numbers {
		// This option looks up each value's type in a table.
		options = json.JoinOptions(options, json.WithUnmarshalers(json.UnmarshalFromFunc(readNumber)))
	}
	return options
}

// readNumber reads a number. As in encoding/json, it may stand in a string.
func readNumber(d *jsontext.Decoder, n *stdjson.Number) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	text := value
	switch value.Kind() {
	case 'n':
		return nil
	case '"':
		unquoted, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return err
		}
		if text = unquoted; string(text) == "null" || len(text) == 0 {
			return nil
		}
	}
	if text.Kind() != '0' || !text.IsValid() {
		return fmt.Errorf("%s is not a number", value)
	}
	*n = stdjson.Number(text)
	return nil
}

// isOdd reports whether a struct has tags that a reader must be told to ignore, as
// encoding/json does: an option string without a meaning, a comma at the end, two fields
// of one name.
func isOdd(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || Encodes(t) || Decodes(t) {
		return false
	}
	if json.Unmarshal([]byte("{}"), reflect.New(t).Interface(), readOptions) != nil {
		return true
	}
	return slices.ContainsFunc(Of(t), func(f Field) bool {
		_, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		return !f.Quoted && slices.Contains(strings.Split(rest, ","), "string")
	})
}
