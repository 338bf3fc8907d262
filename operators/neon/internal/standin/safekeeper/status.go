package safekeeper

import (
	"context"
	"net/http"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// Status is a timeline in upstream's form.
type Status struct {
	Tenant     string     `json:"tenant_id"`
	Timeline   string     `json:"timeline_id"`
	Membership Membership `json:"mconf"`
	Acceptor   struct {
		Term    int64     `json:"term"`
		Epoch   int64     `json:"epoch"`
		History []TermLSN `json:"term_history"`
	} `json:"acceptor_state"`
	PG struct {
		Version  int    `json:"pg_version"`
		SystemID uint64 `json:"system_id"`
		SegSize  int    `json:"wal_seg_size"`
	} `json:"pg_info"`
	Flush            upstream.LSN `json:"flush_lsn"`
	TimelineStart    upstream.LSN `json:"timeline_start_lsn"`
	LocalStart       upstream.LSN `json:"local_start_lsn"`
	Commit           upstream.LSN `json:"commit_lsn"`
	Backup           upstream.LSN `json:"backup_lsn"`
	PeerHorizon      upstream.LSN `json:"peer_horizon_lsn"`
	RemoteConsistent upstream.LSN `json:"remote_consistent_lsn"`
	Peers            []Peer       `json:"peers"`
	WALSenders       []struct{}   `json:"walsenders"`
	WALReceivers     []struct{}   `json:"walreceivers"`
}

// TermLSN is where a term begins.
type TermLSN struct {
	Term int64        `json:"term"`
	LSN  upstream.LSN `json:"lsn"`
}

// Peer is another safekeeper as the broker knows it.
type Peer struct {
	Safekeeper  int64        `json:"sk_id"`
	Term        int64        `json:"term"`
	LastLogTerm int64        `json:"last_log_term"`
	Flush       upstream.LSN `json:"flush_lsn"`
	Commit      upstream.LSN `json:"commit_lsn"`
	LocalStart  upstream.LSN `json:"local_start_lsn"`
	PG          string       `json:"pg_connstr"`
	HTTP        string       `json:"http_connstr"`
	HTTPS       *string      `json:"https_connstr"`
}

// segment is the size of a file of WAL.
const segment = 16 << 20

func (t *Timeline) status(peers []Peer) Status {
	log, at := t.log.State(), t.Position()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Status{
		Tenant: t.Tenant, Timeline: t.ID, Membership: t.state.Membership,
		Flush: at.Flush, TimelineStart: t.state.Start, LocalStart: t.state.Start, Commit: at.Commit,
		Backup: t.state.Backup, PeerHorizon: at.Commit, RemoteConsistent: at.Commit,
		Peers: append([]Peer{}, peers...), WALSenders: []struct{}{}, WALReceivers: []struct{}{},
	}
	if s.Membership.Members == nil {
		s.Membership.Members = []upstream.Member{}
	}
	s.Acceptor.Term, s.Acceptor.Epoch = at.Term, at.Term
	s.Acceptor.History = []TermLSN{{0, t.state.Start}}
	for _, start := range log.History {
		s.Acceptor.History = append(s.Acceptor.History, TermLSN{int64(start.Term), upstream.LSN(start.LSN)})
	}
	s.PG.Version, s.PG.SystemID, s.PG.SegSize = t.state.PGVersion, log.System, segment
	return s
}

// peers asks the broker. Without one there are none.
func (s *Safekeeper) peers(ctx context.Context, t *Timeline) []Peer {
	if s.Broker == "" {
		return nil
	}
	var all []Published
	url := s.Broker + "/standin/timeline/" + t.Tenant + "/" + t.ID
	if err := (wire.Client{HTTP: s.HTTP}).Do(ctx, http.MethodGet, url, nil, &all); err != nil {
		return nil
	}
	var peers []Peer
	for _, p := range all {
		peers = append(peers, Peer{
			Safekeeper: p.Safekeeper, Term: p.Term, LastLogTerm: p.Term, Flush: p.Flush, Commit: p.Commit,
			LocalStart: p.Start, PG: p.PG, HTTP: p.HTTP,
		})
	}
	return peers
}
