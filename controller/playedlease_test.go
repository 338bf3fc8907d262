package controller

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/apitest"
)

// playedLease adds one Lease to a played server. Package lease tests elections on a
// server of its own; this one shows how Run behaves around elections.
type playedLease struct {
	*played

	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	changed chan struct{} // closed, and replaced, at every change
}

func (s *playedLease) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/leases") {
		return s.played.RoundTrip(r)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	watches := r.URL.Query().Get("watch") == "true"
	switch {
	case watches:
		body, w := io.Pipe()
		from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		go s.tellOf(r.Context(), w, from)
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/leases"):
		list := coordinationv1.LeaseList{}
		list.APIVersion, list.Kind = "coordination.k8s.io/v1", "LeaseList"
		list.ResourceVersion = strconv.Itoa(s.version)
		if s.lease != nil {
			list.Items = append(list.Items, *s.lease)
		}
		return s.answer(200, list)
	case r.Method == http.MethodGet && s.lease == nil:
		return s.refuse(404, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		return s.answer(200, s.lease)
	}
	var now coordinationv1.Lease
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	apitest.Decode(body, &now)
	switch {
	case r.Method == http.MethodPost && s.lease != nil:
		return s.refuse(409, metav1.StatusReasonAlreadyExists)
	case r.Method == http.MethodPut && (s.lease == nil || s.lease.ResourceVersion != now.ResourceVersion):
		return s.refuse(409, metav1.StatusReasonConflict)
	}
	s.putLease(&now)
	return s.answer(200, s.lease)
}

func (s *playedLease) refuse(code int, reason metav1.StatusReason) (*http.Response, error) {
	return s.answer(code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: int32(code), Reason: reason,
	})
}

// putLease is called with mu held.
func (s *playedLease) putLease(now *coordinationv1.Lease) {
	s.version++
	now.APIVersion, now.Kind = "coordination.k8s.io/v1", "Lease"
	now.UID, now.ResourceVersion = types.UID("lease"), strconv.Itoa(s.version)
	s.lease = now
	close(s.changed)
	s.changed = make(chan struct{})
}

// give makes another process the holder, as a person with kubectl could.
func (s *playedLease) give(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.lease.DeepCopy()
	now.Spec.HolderIdentity = &holder
	s.putLease(now)
}

func (s *playedLease) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil || s.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *s.lease.Spec.HolderIdentity
}

// tellOf is a watch of the lease: it sends the state after each change.
func (s *playedLease) tellOf(ctx context.Context, w *io.PipeWriter, from int) {
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	for {
		s.mu.Lock()
		now, version, changed := s.lease, s.version, s.changed
		s.mu.Unlock()
		if version > from {
			line, _ := json.Marshal(map[string]any{"type": "MODIFIED", "object": now})
			if _, err := w.Write(append(line, '\n')); err != nil {
				return
			}
			from = version
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// onLeasedStage is onStage with a server that has a Lease.
func onLeasedStage(t *testing.T, test func(*stage, *playedLease)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := &playedLease{played: newPlayed(), changed: make(chan struct{}), version: 10}
		test(newStage(t, server.played, server), server)
	})
}
