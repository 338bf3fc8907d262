package intent

import (
	"encoding/json"
	"reflect"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func deployment() *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{
		Replicas: ptr[int32](0), Selector: selector, Template: template,
	}}
	c := corev1.Container{Name: "web", Image: "web:1", Args: []string{"a", "b", "c"}}
	for range 15 {
		c.Env = append(c.Env, corev1.EnvVar{Name: "NAME", Value: "value"})
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{c}
	return d
}

// The allocations of an apply, besides its buffer, do not grow with the object.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector lets pools forget")
	}
	e, err := For(reflect.TypeFor[appsv1.Deployment]())
	if err != nil {
		t.Fatal(err)
	}
	d, buf := deployment(), make([]byte, 0, 4096)
	opt := Options{APIVersion: "apps/v1", Kind: "Deployment"}
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := e.Object(buf, d, opt); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 4 {
		t.Errorf("%v allocations, want at most 4", allocs)
	}
}

func TestParallel(t *testing.T) {
	e, err := For(reflect.TypeFor[thing[any]]())
	if err != nil {
		t.Fatal(err)
	}
	object := &thing[any]{Spec: map[string]any{"d": deployment(), "t": &tree{Name: "x"}, "n": 1}}
	want, err := e.Object(nil, object, thingOptions)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				got, err := e.Object(nil, object, thingOptions)
				if err != nil || string(got) != string(want) {
					t.Errorf("got %s, %v, want %s", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkDeployment(b *testing.B) {
	e, err := For(reflect.TypeFor[appsv1.Deployment]())
	if err != nil {
		b.Fatal(err)
	}
	d := deployment()
	b.Run("intent", func(b *testing.B) {
		var buf []byte
		for b.Loop() {
			if buf, err = e.Object(buf[:0], d, Options{APIVersion: "apps/v1", Kind: "Deployment"}); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(buf)))
	})
	b.Run("encoding/json", func(b *testing.B) {
		var out []byte
		for b.Loop() {
			if out, err = json.Marshal(d); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(out)))
	})
}
