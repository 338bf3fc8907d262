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
