package wire

import (
	stdjson "encoding/json"
	"testing"
)

type blob []byte

type blobs []blob

// Nil bytes are null, whatever the name of their type: the API server takes no empty text for bytes.
// A number in a field whose tag says so is in a string.
func TestEncodedNilBytesAndQuotedNumbers(t *testing.T) {
	type inner struct{ B blob }
	v := struct {
		Plain  []byte
		Named  blob
		Inner  inner
		List   blobs
		Empty  blob
		Full   blob
		Number stdjson.Number
		Quoted stdjson.Number `json:",string"`
		None   stdjson.Number `json:",string"`
	}{List: blobs{nil}, Empty: blob{}, Full: blob("a"), Number: "1", Quoted: "2"}
	want := `{"Plain":null,"Named":null,"Inner":{"B":null},"List":[null],"Empty":"","Full":"YQ==",` +
		`"Number":1,"Quoted":"2","None":"0"}`
	got, err := EncodeJSON(&v)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	if std, err := stdjson.Marshal(&v); err != nil || string(std) != want {
		t.Errorf("encoding/json has %s, %v", std, err)
	}
}

// pair is a list with an idea of its own of what is zero.
type pair []string

func (p pair) IsZero() bool { return len(p) < 2 }

// A list that is not nil is sent, whatever its type takes for zero.
func TestOptionalListIsNotLost(t *testing.T) {
	v := struct {
		One  pair `json:"one" crd:"optional"`
		None pair `json:"none"`
	}{One: pair{"a"}}
	got, err := EncodeJSON(&v)
	if want := `{"one":["a"],"none":[]}`; err != nil || string(got) != want {
		t.Errorf("%s, want %s: %v", got, want, err)
	}
}
