package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// hostsVariable names a file for machines that cannot look up a cluster's names: an object in
// JSON, from hosts to IPv4 addresses, and from host:port to address:port for Services whose pods have
// other ports than they. The file is read again for each name. It belongs to no real program.
const hostsVariable = "STANDIN_HOSTS"

// resolver returns a resolver of the names in a file. It knows no others, besides those in the
// machine's own file of hosts.
func resolver(file string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			_ = serveNames(server, file) // it ends with the connection
		}()
		return client, nil
	}}
}

// serveNames answers queries in the form that DNS has on streams.
func serveNames(c net.Conn, file string) error {
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return err
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return err
		}
		answer, err := answerQuery(query, file)
		if err != nil {
			return err
		}
		framed := binary.BigEndian.AppendUint16(nil, uint16(len(answer))) //nolint:gosec // one name and one address
		if _, err := c.Write(append(framed, answer...)); err != nil {
			return err
		}
	}
}

func answerQuery(query []byte, file string) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil, fmt.Errorf("read query: %w", err)
	}
	q, err := p.Question()
	if err != nil {
		return nil, fmt.Errorf("read question: %w", err)
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	hosts, err := readHosts(file)
	if err != nil {
		return nil, err
	}
	address, err := netip.ParseAddr(hosts[strings.TrimSuffix(q.Name.String(), ".")])
	switch {
	case err != nil:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return m.Pack()
}

func readHosts(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read hosts: %w", err)
	}
	var hosts map[string]string
	if err := json.Unmarshal(text, &hosts); err != nil {
		return nil, fmt.Errorf("read hosts: %w", err)
	}
	return hosts, nil
}

// toServices returns a dialer that leads to the pods of Services with other ports, as a node does.
func toServices(file string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		hosts, err := readHosts(file)
		if err != nil {
			return nil, err
		}
		if to, ok := hosts[address]; ok {
			address = to
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}
