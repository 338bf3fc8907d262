package crd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// historyAnnotation holds the digests of the definitions that were installed one after
// the other. The last digest is that of the installed definition. With the history a
// program that was rolled back recognizes the definitions of later releases.
const historyAnnotation = "crd.pintle.dev/history"

// maxHistory bounds the history. If more definitions came after that of a program, the
// program's definition counts as unknown.
const maxHistory = 32

// digest returns a hash of a definition's content.
func (d *Definition) digest() (string, error) {
	text, err := json.Marshal(d.Spec)
	if err != nil {
		return "", fmt.Errorf("encode definition: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// history returns the digests in a live definition, oldest first.
func (d *Definition) history() []string {
	return strings.FieldsFunc(d.Annotations[historyAnnotation], func(r rune) bool { return r == ',' })
}

// noted returns a copy of a definition for applying. The copy has the history of the
// definition that it replaces, if that is not nil, and its own digest.
func (d *Definition) noted(before *Definition) (*Definition, error) {
	own, err := d.digest()
	if err != nil {
		return nil, err
	}
	var past []string
	if before != nil {
		past = slices.DeleteFunc(before.history(), func(s string) bool { return s == own })
	}
	past = append(past, own)
	wanted := *d
	wanted.Status = Status{}
	wanted.Annotations = maps.Clone(d.Annotations)
	if wanted.Annotations == nil {
		wanted.Annotations = make(map[string]string)
	}
	wanted.Annotations[historyAnnotation] = strings.Join(past[max(0, len(past)-maxHistory):], ",")
	return &wanted, nil
}

// supersedes reports whether a live definition came after another one and serves the
// programs that were made for the other. One whose names the server refuses serves nobody.
func (d *Definition) supersedes(old *Definition) (bool, error) {
	own, err := old.digest()
	if err != nil {
		return false, err
	}
	past := d.history()
	i := slices.Index(past, own)
	accepted, _ := d.Status.condition("NamesAccepted")
	refused := accepted == "False"
	return i >= 0 && i < len(past)-1 && !refused && d.serves(old), nil
}

// serves reports whether a definition accepts and keeps every value that another one
// accepts and keeps, in every version that the other one serves.
func (d *Definition) serves(o *Definition) bool {
	if d.Spec.Scope != o.Spec.Scope || d.Spec.Names.Plural != o.Spec.Names.Plural ||
		d.Spec.Names.Kind != o.Spec.Names.Kind {
		return false
	}
	for _, v := range o.Spec.Versions {
		if !v.Served {
			continue
		}
		as := d.Version(v.Name)
		if as == nil || !as.Served || !as.Subresources.have(v.Subresources) ||
			len(missing(paths(v.SelectableFields), paths(as.SelectableFields))) > 0 || len(compareVersions(&v, as)) > 0 {
			return false
		}
	}
	return true
}

func paths(selectable []SelectableField) (paths []string) {
	for _, f := range selectable {
		paths = append(paths, f.JSONPath)
	}
	return paths
}

// have reports whether s has every subresource of o.
func (s *Subresources) have(o *Subresources) bool {
	switch {
	case o == nil:
		return true
	case s == nil:
		return o.Status == nil && o.Scale == nil
	}
	return (o.Status == nil || s.Status != nil) && (o.Scale == nil || s.Scale != nil)
}
