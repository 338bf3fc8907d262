package certificate

import "testing"

// An issuer leaves a server alone that is neither its service nor one of its names: another process has
// another authority.
func TestForeignAddresses(t *testing.T) {
	mine := service{"default", "farm"}
	names := []string{"farm", "farm.example.com", "127.0.0.1"}
	for _, c := range []struct {
		config clientConfig
		its    bool
	}{
		{clientConfig{Service: &mine}, true},
		{clientConfig{Service: &service{"default", "barn"}}, false},
		{clientConfig{URL: "https://farm.example.com/x"}, true},
		{clientConfig{URL: "https://127.0.0.1:9443/x"}, true},
		{clientConfig{URL: "https://127.0.0.2:9443/x"}, false},
		{clientConfig{URL: "://"}, false},
		{clientConfig{}, false},
	} {
		o := served{Webhooks: []webhook{{"a", &c.config}}}
		o.Spec.Conversion = &conversion{&webhook{ClientConfig: &c.config}}
		body, holds := o.with([]byte("b"), mine, names)
		if got := len(body.Webhooks) == 1 && body.Spec.Conversion != nil; got != c.its || holds == c.its {
			t.Errorf("%+v: %+v %v", c.config, body, holds)
		}
	}
}
