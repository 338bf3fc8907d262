package wire

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// Room for the elements of lists does not show in the decoded objects.
func TestRoomForLists(t *testing.T) {
	c := mustCodec[nest](t, false)
	decode := func(body string) *nest {
		rec, err := NewRecorder(c).Record(Raw{Bytes: []byte(`{"metadata":{"name":"n","uid":"u"},` + body + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		o := new(nest)
		if err := NewEntry(rec).Decode(c, o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	ten := `"status":{"twigs":[` + strings.Repeat(`{"name":"`+strings.Repeat("a", leastText)+`"},`, 9) + `{"name":"b"}]}`
	for _, body := range []string{
		`"spec":{}`, ten, `"spec":{}`, `"status":{"twigs":[]}`, ten, `"status":{"twigs":null}`, ten, `"status":{"twigs":[{"name":"z"}]}`,
		`"spec":{"twigs":[{"name":"z"}],"name":"` + strings.Repeat("x", 1000) + `"}`, ten,
	} {
		got, want := decode(body), new(nest)
		if err := json.Unmarshal([]byte("{"+body+"}"), want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Spec, want.Spec) || !reflect.DeepEqual(got.Status, want.Status) {
			t.Errorf("%s is decoded as\n%#v, want\n%#v", body, got, want)
		}
	}
}

// testRoomSaves finds that room saves the copies of a growing list.
func testRoomSaves(t *testing.T) {
	c := mustCodec[nest](t, false)
	body := `{"metadata":{"name":"n","uid":"u"},"status":{"twigs":[` +
		strings.Repeat(`{"name":"`+strings.Repeat("a", leastText)+`"},`, 9) + `{"name":"b"}]}}`
	decode := func() {
		rec, err := NewRecorder(c).Record(Raw{Bytes: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		if err := NewEntry(rec).Decode(c, new(nest)); err != nil {
			t.Fatal(err)
		}
	}
	without := func() {
		for _, list := range c.room {
			list.ratio.Store(0)
		}
	}
	without()
	decode()
	few := testing.AllocsPerRun(100, decode)
	many := testing.AllocsPerRun(100, func() { without(); decode() })
	if many-few < 3 {
		t.Errorf("a list is decoded with %v allocations, and without room with %v", few, many)
	}
}

// An object that is far larger than others, such as one with a large annotation, gets no room
// for elements in proportion.
func TestRoomIsBounded(t *testing.T) {
	c := mustCodec[nest](t, false)
	for _, list := range c.room {
		list.ratio.Store(math.Float64bits(1.0 / leastText))
		o := reflect.New(reflect.TypeFor[nest]()).Elem()
		list.make(o, 64<<20)
		if n := o.FieldByIndex(list.index).Cap(); n < mostRoom || n > 2*mostRoom {
			t.Errorf("there is room for %d elements", n)
		}
	}
}
