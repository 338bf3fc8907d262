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

// historyAnnotation has the digests of the definitions that were installed one
// after the other, the last of which is there now: so a program that was rolled
// back recognizes what has come after its own.
const historyAnnotation = "crd.pintle.dev/history"

// maxHistory bounds it: a program that is older than so many definitions is
// taken for an unknown one.
const maxHistory = 32

// digest names what a definition says.
func (d *Definition) digest() (string, error) {
	text, err := json.Marshal(d.Spec)
	if err != nil {
		return "", fmt.Errorf("encode definition: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// history returns the digests that a live definition has, oldest first.
func (d *Definition) history() []string {
	return strings.FieldsFunc(d.Annotations[historyAnnotation], func(r rune) bool { return r == ',' })
}

// noted returns a copy of a definition, to be applied in the place of one that is
// there or, if that is nil, of none, with the history of both.
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

// supersedes reports that a live definition has come after another and serves
// whoever was made for that.
func (d *Definition) supersedes(old *Definition) (bool, error) {
	own, err := old.digest()
	if err != nil {
		return false, err
	}
	past := d.history()
	i := slices.Index(past, own)
	return i >= 0 && i < len(past)-1 && d.serves(old), nil
}

// serves reports that a definition takes in and keeps whole what another one
// does, in every version that this one serves.
func (d *Definition) serves(o *Definition) bool {
	if d.Spec.Scope != o.Spec.Scope || d.Spec.Names.Plural != o.Spec.Names.Plural || d.Spec.Names.Kind != o.Spec.Names.Kind {
		return false
	}
	for _, v := range o.Spec.Versions {
		if !v.Served {
			continue
		}
		as := d.Version(v.Name)
		if as == nil || !as.Served || !as.Subresources.have(v.Subresources) || len(compareVersions(&v, as)) > 0 {
			return false
		}
	}
	return true
}

// have reports that all of some subresources are there.
func (s *Subresources) have(o *Subresources) bool {
	switch {
	case o == nil:
		return true
	case s == nil:
		return o.Status == nil && o.Scale == nil
	}
	return (o.Status == nil || s.Status != nil) && (o.Scale == nil || s.Scale != nil)
}
