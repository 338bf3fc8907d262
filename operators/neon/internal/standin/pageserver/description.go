package pageserver

import (
	"fmt"
	"os"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// Description is a timeline in upstream's form.
type Description struct {
	Tenant                  string        `json:"tenant_id"`
	ID                      string        `json:"timeline_id"`
	Ancestor                *string       `json:"ancestor_timeline_id"`
	AncestorLSN             *upstream.LSN `json:"ancestor_lsn"`
	LastRecord              upstream.LSN  `json:"last_record_lsn"`
	PrevRecord              upstream.LSN  `json:"prev_record_lsn"`
	GCCutoff                upstream.LSN  `json:"applied_gc_cutoff_lsn"`
	MinReadable             upstream.LSN  `json:"min_readable_lsn"`
	DiskConsistent          upstream.LSN  `json:"disk_consistent_lsn"`
	RemoteConsistent        upstream.LSN  `json:"remote_consistent_lsn"`
	RemoteConsistentVisible upstream.LSN  `json:"remote_consistent_lsn_visible"`
	Initdb                  upstream.LSN  `json:"initdb_lsn"`
	LogicalSize             int64         `json:"current_logical_size"`
	LogicalSizeAccurate     bool          `json:"current_logical_size_is_accurate"`
	DirectoryEntries        [8]int        `json:"directory_entries_counts"`
	PhysicalSize            int64         `json:"current_physical_size"`
	LogicalSizeFull         *int64        `json:"current_logical_size_non_incremental"`
	HistorySize             int64         `json:"pitr_history_size"`
	WithinAncestorPITR      bool          `json:"within_ancestor_pitr"`
	LayerFileSize           *int64        `json:"timeline_dir_layer_file_size_sum"`
	WALSource               *string       `json:"wal_source_connstr"`
	LastReceived            *upstream.LSN `json:"last_received_msg_lsn"`
	LastReceivedMicros      *int64        `json:"last_received_msg_ts"`
	PGVersion               int           `json:"pg_version"`
	State                   any           `json:"state"`
	WALReceiver             string        `json:"walreceiver_status"`
	Archived                bool          `json:"is_archived"`
	RelSizeMigration        string        `json:"rel_size_migration"`
	RelSizeMigratedAt       *upstream.LSN `json:"rel_size_migrated_at"`
	Invisible               bool          `json:"is_invisible"`
}

// rootSize is about the size of an empty database cluster.
const rootSize = 23 << 20

func (p *Pageserver) describe(s *shard, t *timeline) Description {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := t.local(p.walPath(s, t))
	d := Description{
		Tenant: t.tenant, ID: t.index.ID, Ancestor: t.index.Ancestor, AncestorLSN: t.index.AncestorLSN,
		LastRecord: last, PrevRecord: t.index.Prev, GCCutoff: t.index.Initdb, MinReadable: t.index.Initdb,
		DiskConsistent: t.index.Start, RemoteConsistent: t.index.Start, RemoteConsistentVisible: t.index.Start,
		Initdb: t.index.Initdb, LogicalSize: rootSize, LogicalSizeAccurate: true,
		HistorySize: rootSize + int64(last-t.index.Start), PGVersion: t.index.PGVersion, State: upstream.TimelineActive,
		WALReceiver: "Not active", Archived: t.index.Archived, RelSizeMigration: "legacy",
	}
	if t.index.Ancestor == nil {
		d.DirectoryEntries = [8]int{4, 0, 296, 0, 1, 1, 1, 0}
		d.PhysicalSize = rootSize
	}
	if t.broken != "" {
		d.State = map[string]any{"Broken": map[string]string{"reason": t.broken, "backtrace": ""}}
	}
	if info, err := os.Stat(p.walPath(s, t)); err == nil {
		d.PhysicalSize += info.Size()
	}
	if t.source != "" {
		source, micros := "postgresql://"+t.source, t.micros
		d.WALSource, d.LastReceived, d.LastReceivedMicros = &source, &last, &micros
		d.WALReceiver = fmt.Sprintf(" (update %s): streaming WAL from %s, commit|streaming Lsn: %s|%s",
			time.UnixMicro(micros).UTC().Format(time.DateTime), t.source, last, last)
	}
	return d
}
