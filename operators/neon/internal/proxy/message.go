package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// startup is the message with which a client asks for a session: names and values.
type startup struct {
	version    uint32 // major and minor
	parameters []parameter
}

type parameter struct{ name, value string }

// errVersion is the error of a client with another protocol.
var errVersion = errors.New("the protocol's version is not supported: it must be 3")

// errMalformed is the error of a startup message that cannot be read.
var errMalformed = errors.New("the startup message is malformed")

// parseStartup reads a message that begins with its version. The minor version and parameters
// that begin with _pq_. are PostgreSQL's to negotiate.
func parseStartup(body []byte) (*startup, error) {
	m := &startup{version: binary.BigEndian.Uint32(body)}
	if m.version>>16 != 3 {
		return nil, errVersion
	}
	text := string(body[4:])
	seen := map[string]bool{}
	for {
		name, rest, ok := strings.Cut(text, "\x00")
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: it has no end", errMalformed)
		case name == "" && rest != "":
			return nil, fmt.Errorf("%w: there is more after its end", errMalformed)
		case name == "" && len(seen) == 0:
			return nil, fmt.Errorf("%w: it is empty", errMalformed)
		case name == "":
			return m, nil
		case seen[name]:
			// PostgreSQL would see another value than the proxy.
			return nil, fmt.Errorf("%w: it has a parameter twice", errMalformed)
		}
		value, rest, ok := strings.Cut(rest, "\x00")
		if !ok {
			return nil, fmt.Errorf("%w: a parameter has no value", errMalformed)
		}
		seen[name] = true
		m.parameters = append(m.parameters, parameter{name, value})
		text = rest
	}
}

// get returns the value of a parameter, empty if there is none.
func (m *startup) get(name string) string {
	for _, p := range m.parameters {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// set replaces the value of a parameter. An empty value removes it.
func (m *startup) set(name, value string) {
	for i, p := range m.parameters {
		switch {
		case p.name != name:
			continue
		case value == "":
			m.parameters = append(m.parameters[:i], m.parameters[i+1:]...)
		default:
			m.parameters[i].value = value
		}
		return
	}
}

// encode returns the message as a client sends it.
func (m *startup) encode() []byte {
	text := binary.BigEndian.AppendUint32(make([]byte, 4, 256), m.version)
	for _, p := range m.parameters {
		text = append(append(text, p.name...), 0)
		text = append(append(text, p.value...), 0)
	}
	text = append(text, 0)
	binary.BigEndian.PutUint32(text, uint32(len(text))) // #nosec G115 -- at most as long as it was
	return text
}
