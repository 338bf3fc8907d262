package compute

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
)

// push plays the standby walproposer until PostgreSQL ends: PostgreSQL tells how far its WAL
// is on the disk, and hears how far it is on a quorum. Only then do its commits return.
func (n *node) push(ctx context.Context, p *postgres) {
	for ctx.Err() == nil {
		if err := n.pushOnce(ctx); err != nil {
			n.log.Debug("push WAL", "error", err)
		}
		select {
		case <-p.done:
			return
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (n *node) pushOnce(ctx context.Context) error {
	config, err := pgconn.ParseConfig(n.options.connection)
	if err != nil {
		return fmt.Errorf("read connection string: %w", err)
	}
	config.RuntimeParams["replication"] = "true"
	config.RuntimeParams["application_name"] = "walproposer"
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect for replication: %w", err)
	}
	start := n.proposer.Commit()
	conn.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION PHYSICAL " + start.String()})
	if err := conn.Frontend().Flush(); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	for {
		message, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return errors.Join(err, conn.Close(ctx))
		}
		if _, ok := message.(*pgproto3.CopyBothResponse); ok {
			break
		}
		if refusal, ok := message.(*pgproto3.ErrorResponse); ok {
			return errors.Join(errors.New(refusal.Message), conn.Close(ctx))
		}
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		return err
	}
	return n.exchange(ctx, hijacked, start)
}

// exchange reads and writes until the connection ends.
func (n *node) exchange(ctx context.Context, conn *pgconn.HijackedConn, durable wal.LSN) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Conn.Close() })()
	asked := make(chan struct{}, 1)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() {
		defer cancel()
		for {
			message, err := conn.Frontend.Receive()
			if err != nil {
				return
			}
			d, ok := message.(*pgproto3.CopyData)
			if !ok {
				continue
			}
			const header = 25 // kind, start, end, time
			switch {
			case len(d.Data) >= header && d.Data[0] == 'w':
				n.proposer.Offer(wal.LSN(binary.BigEndian.Uint64(d.Data[1:])) + wal.LSN(len(d.Data)-header))
			case len(d.Data) >= 18 && d.Data[0] == 'k' && d.Data[17] == 1:
				select {
				case asked <- struct{}{}:
				default:
				}
			}
		}
	})
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		message := []byte("r")
		for range 3 { // written, flushed and applied
			message = binary.BigEndian.AppendUint64(message, uint64(durable))
		}
		message = binary.BigEndian.AppendUint64(message, 0) // nobody looks at the clock
		conn.Frontend.Send(&pgproto3.CopyData{Data: append(message, 0)})
		if err := conn.Frontend.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case lsn := <-n.proposer.Durable():
			durable = max(durable, lsn)
		case <-asked:
		case <-tick.C:
		}
	}
}
