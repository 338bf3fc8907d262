package kubebuilder

import "testing"

// The values of markers, in JSON.
func TestValueJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{a,b}`: `["a","b"]`, `{1;2}`: `[1,2]`, `{}`: `{}`, `[]`: `[]`, `["a", {"b": null}]`: `["a",{"b":null}]`,
		`{a: b, c:{d: "e:f"}}`:         `{"a":"b","c":{"d":"e:f"}}`,
		`{{type: "A", n:1},{type: B}}`: `[{"n":1,"type":"A"},{"type":"B"}]`,
		`{"a": [true, 1.5]}`:           `{"a":[true,1.5]}`, `word`: `"word"`, "`q\"`": `"q\""`, `12`: `12`,
	} {
		if got, err := valueJSON(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, wrong := range []string{``, `{a`, `{a: }`, `{a: b} c`, `{a, b: c}`, `{a: b, c}`, `"a`, `[a`, `{a b: {}`} {
		if got, err := valueJSON(wrong); err == nil {
			t.Errorf("%s: got %s", wrong, got)
		}
	}
}

func FuzzValueJSON(f *testing.F) {
	f.Add(`{a: {b, c}, "d": [1]}`)
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = valueJSON(text)
		_, _ = list(text)
		for _, err := range Tags([]string{"kubebuilder:validation:XValidation:" + text, "kubebuilder:resource:" + text}, nil) {
			_ = err // any text may be wrong, and none may panic
		}
	})
}
