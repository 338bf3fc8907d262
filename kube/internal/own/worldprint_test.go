package own_test

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/own"
)

// print names a state: two states of one name have one future.
func (w *world) print() string {
	b := make([]byte, 0, 256)
	for _, f := range w.history {
		b = append(append(append(b, f.uid...), '-'), f.gone...)
		b = appendBools(b, f.out, f.deleting)
	}
	for _, letters := range [][]letter{w.letters, w.asked} {
		b = append(b, '|')
		for _, l := range letters {
			b = append(append(append(append(b, l.kind...), ' '), l.uid...), ' ')
			b = append(appendInts(b, l.version, l.object, int(l.began)), l.floor...)
		}
	}
	lane, left := w.store.Lane(0), w.left
	b = append(append(append(append(b, '|'), own.Print(&w.store)...), '|'), lane.Heard...)
	b = append(append(append(b, '|'), lane.Floor...), '|')
	b = append(append(append(b, w.now.UID...), ' '), w.now.Version...)
	b = appendBools(b, w.now.Exists, w.now.Deleting, w.mine)
	b = appendInts(b, w.seen, int(w.store.Began()), w.acked)
	for _, uids := range [][]types.UID{w.ours, w.told} {
		b = append(b, '|')
		for _, uid := range uids {
			b = append(append(b, uid...), ' ')
		}
	}
	b = appendInts(b, left.foreign, left.relabels, left.writes, left.losses, left.lists, left.asks, left.stales)
	return string(b)
}

func appendBools(b []byte, bits ...bool) []byte {
	for _, bit := range bits {
		b = strconv.AppendBool(b, bit)
	}
	return b
}

func appendInts(b []byte, ints ...int) []byte {
	for _, n := range ints {
		b = append(strconv.AppendInt(b, int64(n), 10), ' ')
	}
	return b
}
