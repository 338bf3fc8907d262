package wire

import (
	"math"
	"reflect"
	"sync/atomic"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

// A decoder of JSON does not know how long a list will be. It makes room for one element,
// for two, four and so on, and copies them each time. For a list of large structs in
// thousands of objects, that is most of the garbage. Objects of one kind have lists whose
// lengths go with the sizes of the objects, so room is made before.

// roomy is a list of large structs in a type.
type roomy struct {
	index []int // for reflect.Value.FieldByIndex
	// ratio is the number of elements per byte of JSON in the latest object that has
	// elements, as the bits of a float64.
	ratio atomic.Uint64
}

// largeElement is the size in bytes from which room is made for elements.
const largeElement = 128

// leastText is the size in bytes of the JSON of an element that counts for the room of
// others: elements may be null.
const leastText = 32

// mostRoom is the largest number of elements that room is made for: the size of an object may
// be that of an annotation.
const mostRoom = 1000

// roomyIn returns the lists of large structs in a struct type that are reached without
// pointers.
func roomyIn(t reflect.Type, index []int) (all []*roomy) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(index[:len(index):len(index)], i)
		switch {
		case f.PkgPath != "" || jsonfields.Decodes(f.Type):
		case f.Type.Kind() == reflect.Struct:
			all = append(all, roomyIn(f.Type, at)...)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct && f.Type.Elem().Size() >= largeElement:
			all = append(all, &roomy{index: at})
		}
	}
	return all
}

// make makes room in an empty object for the elements that an object of a size may have.
func (r *roomy) make(object reflect.Value, size int) {
	if ratio := math.Float64frombits(r.ratio.Load()); ratio > 0 {
		object.FieldByIndex(r.index).Grow(min(int(ratio*float64(size))+1, mostRoom))
	}
}

// made notes how many elements an object has. A list that the decoder has not touched is
// nil again.
func (r *roomy) made(object reflect.Value, size int) {
	switch list := object.FieldByIndex(r.index); {
	case list.Len() > 0:
		if size/list.Len() < leastText {
			return
		}
		r.ratio.Store(math.Float64bits(float64(list.Len()) / float64(size)))
	case list.Cap() > 0: // the decoder gives an empty list no room
		list.SetZero()
	}
}
