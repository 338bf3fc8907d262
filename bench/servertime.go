package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// serverTime reads the processor time that the API server has used. The time includes the
// server's garbage collector, whose cost falls on the subject that is served at that
// moment. So look at means of many runs, not at one run.
type serverTime struct {
	client *http.Client
	url    string
}

func newServerTime(cfg *rest.Config) (serverTime, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return serverTime{}, fmt.Errorf("connect: %w", err)
	}
	return serverTime{client, cfg.Host + "/metrics"}, nil
}

// used returns the processor time that the server has used since it started.
func (s serverTime) used(ctx context.Context) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read the server's metrics: %w", err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		value, ok := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total ")
		if !ok {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read the server's processor time: %w", err)
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	return 0, fmt.Errorf("read the server's metrics: status %s, no processor time: %w", resp.Status, lines.Err())
}
