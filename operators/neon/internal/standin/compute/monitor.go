package compute

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// activity is the state of clients as upstream sees it: it is now while one is not idle,
// and otherwise the last change of an idle one.
const activity = `select
	coalesce(bool_or(state <> 'idle'), false)
		or exists (select from pg_stat_replication where application_name <> 'walproposer'),
	max(state_change)
from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid() and usename <> 'cloud_admin'`

// monitor looks for active sessions twice a second, while the compute is running. It does
// not see those that begin and end between two looks.
func (n *node) monitor(ctx context.Context, p *postgres) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx)) // PostgreSQL may have ended
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.done:
			return
		case <-time.After(500 * time.Millisecond):
		}
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = n.connect(ctx, ""); err != nil {
				conn = nil
				continue
			}
		}
		var active bool
		var changed *time.Time
		if err := conn.QueryRow(ctx, activity).Scan(&active, &changed); err != nil {
			continue
		}
		if active {
			now := time.Now()
			changed = &now
		}
		n.noteActivity(changed)
	}
}

func (n *node) noteActivity(at *time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at == nil || n.status != statusRunning || n.lastActive != nil && !at.After(*n.lastActive) {
		return
	}
	utc := at.UTC()
	n.lastActive = &utc
}
