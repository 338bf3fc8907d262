package kube

import "fmt"

// Apart returns a client like c with connections of its own, which speak
// HTTP/1.1: each carries one request at a time, and is closed when that is given
// up. It is for the few requests that must get through in time.
//
// All requests of other clients of a cluster share one HTTP/2 connection. If that
// hangs, because a router drops its packets, they hang with it until pings have
// stayed unanswered, which takes 45 seconds: the end of a request does not end
// the connection.
//
// The client's requests are told to the observers of c; its stores are its own.
// Where the configuration brings a transport, that is used by both.
func (c *Client) Apart() (*Client, error) {
	cfg := c.RestConfig()
	cfg.NextProtos = []string{"http/1.1"}
	apart, err := newClient(Config{FieldManager: c.fieldManager, Logger: c.logger, Observe: c.observed}, cfg, c.namespace)
	if err != nil {
		return nil, fmt.Errorf("set a client apart: %w", err)
	}
	return apart, nil
}
