package crd_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type West struct {
	X int `json:"x"`
}

type East struct {
	X int `json:"x"`
}

type Both struct {
	West
	East     //nolint:govet // the two names are what is tested
	Y    int `json:"y"`
}

// OwnAndY is encoded by the method of its embedded field, and OwnJSON by its own.
type OwnAndY struct {
	Own
	Y string `json:"y"`
}

// InnerAndY and UntoldAndY have the method of an embedded field that is no member itself.
type inner struct{ Own }

type InnerAndY struct {
	inner
	Y string `json:"y"`
}

type UntoldAndY struct {
	*inner `json:"-"`
	Y      string `json:"y"`
}

type AddrAndY struct {
	*netip.Addr
	Y []string `json:"y"`
}

type OwnJSON struct {
	Own
	Y string `json:"y"`
}

// OwnNumber leaves out a zero.
type OwnNumber struct {
	Own
	Y int `json:"y"`
}

func (o OwnNumber) MarshalJSON() ([]byte, error) {
	if o.Y == 0 {
		return o.Own.MarshalJSON()
	}
	return json.Marshal(o.Y)
}
func (o *OwnNumber) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &o.Y) }

func (o OwnJSON) MarshalJSON() ([]byte, error)  { return json.Marshal(o.Y) }
func (o *OwnJSON) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &o.Y) }

// A definition has each field of its type, or says why not.
func TestHiddenFields(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{wrong[Both](), `crd_test.Both has the name x in JSON twice`},
		{wrong[OwnAndY](), `crd_test.OwnAndY is encoded as its embedded field Own alone`},
		{wrong[struct {
			A OwnAndY `json:"a" crd:"type=integer"`
		}](), `crd_test.OwnAndY is encoded as its embedded field Own alone`},
		{wrong[struct {
			A InnerAndY `json:"a" crd:"type=integer"`
		}](), `crd_test.InnerAndY is encoded as its embedded field inner alone`},
		{wrong[struct {
			A UntoldAndY `json:"a" crd:"type=integer"`
		}](), `crd_test.UntoldAndY is encoded as its embedded field inner alone`},
		{wrong[struct {
			A []AddrAndY `json:"a"`
		}](), `crd_test.AddrAndY is encoded as its embedded field Addr alone`},
		{wrong[struct {
			A OwnJSON `json:"a" crd:"type=string"`
		}](), ``},
		{wrong[struct {
			A OwnNumber `json:"a" crd:"type=integer"`
		}](), ``},
		{wrong[struct {
			A metav1.Time `json:"a"`
		}](), ``},
	} {
		if got := c.err; (got == nil) != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
			t.Errorf("got %v, want %s", got, c.want)
		}
	}
}
