package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// NewTimeline is a timeline to create: a root, or a branch of an ancestor.
type NewTimeline struct {
	ID string `json:"new_timeline_id"`
	// PGVersion is the major version of a root. Zero means 17.
	PGVersion int `json:"pg_version,omitempty"`
	// Ancestor is the timeline to branch from.
	Ancestor string `json:"ancestor_timeline_id,omitempty"`
	// StartLSN is the place to branch at. Nil means the ancestor's last. An LSN that the
	// ancestor has not reached makes the request hang.
	StartLSN *LSN `json:"ancestor_start_lsn,omitempty"`
	// ReadOnly makes a timeline without safekeepers.
	ReadOnly bool `json:"read_only,omitempty"`
}

// Timeline is a timeline as its pageserver knows it.
type Timeline struct {
	TenantID            string  `json:"tenant_id"`
	ID                  string  `json:"timeline_id"`
	Ancestor            *string `json:"ancestor_timeline_id"`
	AncestorLSN         *LSN    `json:"ancestor_lsn"`
	LastRecordLSN       LSN     `json:"last_record_lsn"`
	DiskConsistentLSN   LSN     `json:"disk_consistent_lsn"`
	RemoteConsistentLSN LSN     `json:"remote_consistent_lsn"`
	// MinReadableLSN is the oldest place that can be read and branched from.
	MinReadableLSN LSN `json:"min_readable_lsn"`
	// LogicalSize is the size of the databases, in bytes. It is not set until it was
	// calculated.
	LogicalSize         *int64 `json:"current_logical_size"`
	LogicalSizeAccurate bool   `json:"current_logical_size_is_accurate"`
	PhysicalSize        *int64 `json:"current_physical_size"`
	// HistorySize is the size of the history that branches may start in, in bytes.
	HistorySize        int64         `json:"pitr_history_size"`
	PGVersion          int           `json:"pg_version"`
	State              TimelineState `json:"state"`
	Archived           *bool         `json:"is_archived"`
	WALReceiverStatus  string        `json:"walreceiver_status"`
	LastReceivedMicros *int64        `json:"last_received_msg_ts"`
}

// TimelineState says whether a timeline serves: Loading, Active, Stopping, or Broken with the
// reason, as in "Broken: layer file is missing". Upstream's form of the last one is an object:
// libs/pageserver_api/src/models.rs, TimelineState.
type TimelineState string

// TimelineActive is the state of a timeline that serves.
const TimelineActive TimelineState = "Active"

// UnmarshalJSON reads upstream's form.
func (s *TimelineState) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, (*string)(s)) == nil {
		return nil
	}
	var variant map[string]struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(text, &variant); err != nil || len(variant) != 1 {
		return fmt.Errorf("parse the state of a timeline: %.200s", text)
	}
	for name, of := range variant {
		*s = TimelineState(name + ": " + of.Reason)
	}
	return nil
}

// SafekeeperSet is where a timeline's WAL goes.
type SafekeeperSet struct {
	Generation  int64 `json:"generation"`
	Safekeepers []struct {
		ID int64 `json:"id"`
		// Host is without a port.
		Host string `json:"hostname"`
	} `json:"safekeepers"`
}

// CreatedTimeline is the answer to the creation of a timeline.
type CreatedTimeline struct {
	Timeline
	// Safekeepers is set here only; to read the set later use [Controller.Locate]. It is nil
	// for a timeline that is read only.
	Safekeepers *SafekeeperSet `json:"safekeepers"`
}

// CreateTimeline creates a timeline. A repeat with the same parameters gives the same
// answer. No error says that the timeline exists: see [Error.Folded]. Before, compare StartLSN with the
// ancestor's MinReadableLSN and LastRecordLSN.
func (c *Controller) CreateTimeline(ctx context.Context, tenant string, t NewTimeline) (CreatedTimeline, error) {
	var created CreatedTimeline
	err := c.tenantCall(ctx, tenant,
		request{http.MethodPost, "/v1/tenant/" + tenant + "/timeline", scope(token.Pageserver), t}, &created)
	return created, err
}

// Timelines returns the timelines of a tenant, except those that are offloaded because they
// were archived. Children are told by their Ancestor, which detachment changes for siblings too.
func (c *Controller) Timelines(ctx context.Context, tenant string) ([]Timeline, error) {
	var all []Timeline
	err := c.tenantCall(ctx, tenant,
		request{http.MethodGet, "/v1/tenant/" + tenant + "/timeline", scope(token.Pageserver), nil}, &all)
	return all, err
}

// Offloaded is a timeline that was archived and that no pageserver keeps at hand.
type Offloaded struct {
	ID       string  `json:"timeline_id"`
	Ancestor *string `json:"ancestor_timeline_id"`
	// AncestorLSN is nil if it is not known.
	AncestorLSN *LSN `json:"ancestor_retain_lsn"`
}

// TimelinesAndOffloaded returns all timelines of a tenant. Both kinds can be children.
func (c *Controller) TimelinesAndOffloaded(ctx context.Context, tenant string) ([]Timeline, []Offloaded, error) {
	var answer struct {
		Timelines []Timeline  `json:"timelines"`
		Offloaded []Offloaded `json:"offloaded"`
	}
	path := "/v1/tenant/" + tenant + "/timeline_and_offloaded"
	err := c.tenantCall(ctx, tenant, request{http.MethodGet, path, scope(token.Pageserver), nil}, &answer)
	return answer.Timelines, answer.Offloaded, err
}

// Timeline returns a timeline. The error is [IsNotFound] when there is none.
func (c *Controller) Timeline(ctx context.Context, tenant, timeline string) (Timeline, error) {
	var t Timeline
	err := c.tenantCall(ctx, tenant,
		request{http.MethodGet, timelinePath(tenant, timeline, ""), scope(token.Pageserver), nil}, &t)
	return t, err
}

// LSNAt is the place in a timeline that belongs to a time.
type LSNAt struct {
	LSN  LSN     `json:"lsn"`
	Kind LSNKind `json:"kind"`
	// ValidUntil is the end of the lease: until then the place is not collected as garbage.
	ValidUntil time.Time `json:"valid_until,omitzero"`
}

// LSNKind says how a time lies to a timeline's history.
type LSNKind string

const (
	// LSNPresent is a time with a commit after it. Only this LSN is that of the time.
	LSNPresent LSNKind = "present"
	// LSNFuture is a time after the last commit.
	LSNFuture LSNKind = "future"
	// LSNPast is a time before the history that is kept.
	LSNPast LSNKind = "past"
	// LSNNoData is a timeline without commits.
	LSNNoData LSNKind = "nodata"
)

// LSNByTime returns the place of a time in a timeline, and holds it for about 60 s.
func (c *Controller) LSNByTime(ctx context.Context, tenant, timeline string, at time.Time) (LSNAt, error) {
	query := url.Values{"timestamp": {at.UTC().Format(time.RFC3339Nano)}, "with_lease": {"true"}}
	var answer LSNAt
	err := c.tenantCall(ctx, tenant, request{http.MethodGet,
		timelinePath(tenant, timeline, "/get_lsn_by_timestamp?"+query.Encode()), scope(token.Pageserver), nil}, &answer)
	return answer, err
}

// LeaseLSN holds a place in a timeline on all shards for about 60 s.
func (c *Controller) LeaseLSN(ctx context.Context, tenant, timeline string, lsn LSN) error {
	body := struct {
		LSN LSN `json:"lsn"`
	}{lsn}
	return c.tenantCall(ctx, tenant,
		request{http.MethodPost, timelinePath(tenant, timeline, "/lsn_lease"), scope(token.Pageserver), body}, nil)
}

// Archive archives a timeline. It is an error (412, [HasChildren]) while a child is not archived.
// Computes on the timeline are not asked.
func (c *Controller) Archive(ctx context.Context, tenant, timeline string) error {
	return c.archival(ctx, tenant, timeline, "Archived")
}

// Unarchive ends the archival of a timeline. It is an error (412) while the ancestor is archived.
func (c *Controller) Unarchive(ctx context.Context, tenant, timeline string) error {
	return c.archival(ctx, tenant, timeline, "Unarchived")
}

func (c *Controller) archival(ctx context.Context, tenant, timeline, state string) error {
	body := struct {
		State string `json:"state"`
	}{state}
	return c.tenantCall(ctx, tenant,
		request{http.MethodPut, timelinePath(tenant, timeline, "/archival_config"), scope(token.Pageserver), body}, nil)
}

// DetachAncestor makes a branch independent of its ancestor. It returns the siblings that
// are children of the branch from then on. It is an error (400) if the ancestor has an ancestor
// itself, or if the branch or such a sibling is archived. A tenant takes one at a time (503 for
// others).
func (c *Controller) DetachAncestor(ctx context.Context, tenant, timeline string) ([]string, error) {
	var answer struct {
		Reparented []string `json:"reparented_timelines"`
	}
	err := c.tenantCall(ctx, tenant,
		request{http.MethodPut, timelinePath(tenant, timeline, "/detach_ancestor"), scope(token.Pageserver), nil}, &answer)
	return answer.Reparented, err
}

// DeleteTimeline deletes a timeline. It is no error if there is none. Never call it while a
// child exists or may be made: the WAL is destroyed before the error comes. End the computes
// first.
func (c *Controller) DeleteTimeline(ctx context.Context, tenant, timeline string) error {
	return c.tenantCall(ctx, tenant,
		request{http.MethodDelete, timelinePath(tenant, timeline, ""), scope(token.Pageserver), nil}, nil)
}

// Location is where the storage controller put a timeline's WAL.
type Location struct {
	Generation int64   `json:"generation"`
	Set        []int64 `json:"sk_set"`
	// NewSet is the goal of a migration that is under way.
	NewSet []int64 `json:"new_sk_set"`
}

// Locate returns the safekeepers of a timeline, in no order. The error is [IsNotFound] when
// the storage controller has put it on none, or deletes it.
func (c *Controller) Locate(ctx context.Context, tenant, timeline string) (Location, error) {
	var l Location
	err := c.tenantCall(ctx, tenant,
		request{http.MethodGet, "/debug" + timelinePath(tenant, timeline, "/locate"), scope(token.Admin), nil}, &l)
	return l, err
}

// MigrateSafekeepers moves a timeline's WAL to a set of safekeepers, with up to three calls of the
// hook notify-safekeepers. Without a quorum of the old set it is an error (500), and nothing changes.
func (c *Controller) MigrateSafekeepers(ctx context.Context, tenant, timeline string, set []int64) error {
	body := struct {
		Set []int64 `json:"new_sk_set"`
	}{set}
	return c.tenantCall(ctx, tenant,
		request{http.MethodPost, timelinePath(tenant, timeline, "/safekeeper_migrate"), scope(token.Admin), body}, nil)
}

// AbortSafekeeperMigration goes back to the old set, if the new one does not hold the WAL yet. The
// error is also [IsNotFound] if the storage controller is from before August 2025 and has no such call.
func (c *Controller) AbortSafekeeperMigration(ctx context.Context, tenant, timeline string) error {
	return c.tenantCall(ctx, tenant,
		request{http.MethodPost, timelinePath(tenant, timeline, "/safekeeper_migrate_abort"), scope(token.Admin), nil}, nil)
}
