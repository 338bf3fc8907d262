package crd

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	experiment "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is an object between two conversions.
type object struct {
	group, version, kind string
	raw                  []byte // all of it
	// fields are all but apiVersion, kind and metadata.
	fields              map[string]jsontext.Value
	metadata            jsontext.Value
	labels, annotations map[string]string
}

// labeled is the part of metadata that may change.
type labeled struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// alwaysThere are the fields that every object has.
var alwaysThere = [...]string{"apiVersion", "kind", "metadata"}

// readObject reads an object as the API server sends it.
func readObject(raw []byte) (*object, error) {
	o := &object{raw: raw}
	if err := experiment.Unmarshal(raw, &o.fields, readOptions); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	var apiVersion string
	var meta labeled
	for name, into := range map[string]any{"apiVersion": &apiVersion, "kind": &o.kind, "metadata": &meta} {
		if value := o.fields[name]; value != nil {
			if err := experiment.Unmarshal(value, into, readOptions); err != nil {
				return nil, fmt.Errorf("decode %s of object: %w", name, err)
			}
		}
	}
	o.group, o.version, _ = strings.Cut(apiVersion, "/")
	o.metadata, o.labels, o.annotations = o.fields["metadata"], meta.Labels, meta.Annotations
	for _, name := range alwaysThere {
		delete(o.fields, name)
	}
	return o, nil
}

// write sets raw, and metadata to that of the object that o was converted from, with the labels and
// annotations of o.
func (o *object) write(from *object) error {
	o.metadata = from.metadata
	if len(o.metadata) == 0 || o.metadata.Kind() == 'n' {
		o.metadata = jsontext.Value("{}") // an object without metadata is an error for the server
	}
	if !maps.Equal(o.labels, from.labels) || !maps.Equal(o.annotations, from.annotations) {
		var meta map[string]jsontext.Value
		if err := experiment.Unmarshal(o.metadata, &meta, readOptions); err != nil {
			return fmt.Errorf("decode metadata: %w", err)
		}
		for name, texts := range map[string]map[string]string{"labels": o.labels, "annotations": o.annotations} {
			delete(meta, name)
			if len(texts) > 0 {
				value, err := experiment.Marshal(texts, writeOptions)
				if err != nil {
					return fmt.Errorf("encode %s: %w", name, err)
				}
				meta[name] = value
			}
		}
		var err error
		if o.metadata, err = experiment.Marshal(meta, writeOptions); err != nil {
			return fmt.Errorf("encode metadata: %w", err)
		}
	}
	// The server accepts the names in any order.
	raw := fmt.Appendf(nil, `{"apiVersion":"%s/%s","kind":"%s","metadata":%s`, o.group, o.version, o.kind, o.metadata)
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		quoted, err := jsontext.AppendQuote(append(raw, ','), name)
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		raw = append(append(quoted, ':'), o.fields[name]...)
	}
	o.raw = append(raw, '}')
	return nil
}

// annotate sets an annotation.
func (o *object) annotate(key, text string) {
	if o.annotations == nil {
		o.annotations = make(map[string]string)
	}
	o.annotations[key] = text
}

// maxAnnotations is how much the keys and values of all annotations may have for the server.
const maxAnnotations = 256 << 10

func size(annotations map[string]string) (n int) {
	for key, text := range annotations {
		n += len(key) + len(text)
	}
	return n
}

// sameFields reports whether two objects have equal fields. It answers for most objects, without
// decoding them: one that reports false may still have equal fields.
func sameFields(a, b *object) bool {
	return maps.EqualFunc(a.fields, b.fields, func(a, b jsontext.Value) bool {
		a, b = a.Clone(), b.Clone()
		return a.Format(orderOptions) == nil && b.Format(orderOptions) == nil && bytes.Equal(a, b)
	})
}

// readOptions are for objects as the API server stores them: old ones may hold invalid UTF-8.
var (
	readOptions = experiment.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	// writeOptions also make the same text of the same values.
	writeOptions = experiment.JoinOptions(readOptions, experiment.Deterministic(true), jsontext.PreserveRawStrings(true))
	orderOptions = experiment.JoinOptions(readOptions, jsontext.ReorderRawObjects(true))
)
