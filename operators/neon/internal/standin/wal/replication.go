package wal

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

var (
	optionID         = regexp.MustCompile(`(tenant_id|timeline_id)=([0-9a-f]{32})`)
	startReplication = regexp.MustCompile(`(?i)^START_REPLICATION\s.*?([0-9A-F]+/[0-9A-F]+)`)
)

// replicate serves a replica: a PostgreSQL in recovery that connects with the primary_conninfo
// of the compute's configuration, as it does to Neon's safekeepers. It sends committed WAL.
func (s *Server) replicate(ctx context.Context, conn net.Conn, r *bufio.Reader) error {
	backend := pgproto3.NewBackend(r, conn)
	log, err := s.admitReplica(conn, backend)
	if err != nil {
		backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "28000", Message: err.Error()})
		return errors.Join(err, backend.Flush())
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	for name, value := range map[string]string{
		"server_version": "15.0", "client_encoding": "UTF8", "integer_datetimes": "on",
		"standard_conforming_strings": "on", "DateStyle": "ISO",
	} {
		backend.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := backend.Flush(); err != nil {
		return err
	}
	for {
		message, err := backend.Receive()
		if err != nil {
			return err
		}
		query, ok := message.(*pgproto3.Query)
		if !ok {
			return nil // it terminates
		}
		if match := startReplication.FindStringSubmatch(query.String); match != nil {
			from, err := ParseLSN(match[1])
			if err != nil {
				return err
			}
			return stream(ctx, conn, backend, log, from)
		}
		reply(backend, log, query.String)
		if err := backend.Flush(); err != nil {
			return err
		}
	}
}

// admitReplica reads the startup message and the password, which is a token.
func (s *Server) admitReplica(conn net.Conn, backend *pgproto3.Backend) (*Log, error) {
	for {
		message, err := backend.ReceiveStartupMessage()
		if err != nil {
			return nil, err
		}
		startup, ok := message.(*pgproto3.StartupMessage)
		if !ok { // it asks for TLS, or for an encryption by Kerberos
			if _, err := conn.Write([]byte("N")); err != nil {
				return nil, err
			}
			continue
		}
		var h hello
		for _, match := range optionID.FindAllStringSubmatch(startup.Parameters["options"], -1) {
			if match[1] == "tenant_id" {
				h.Tenant = match[2]
			} else {
				h.Timeline = match[2]
			}
		}
		if s.Verify != nil {
			backend.Send(&pgproto3.AuthenticationCleartextPassword{})
			if err := errors.Join(backend.Flush(), backend.SetAuthType(pgproto3.AuthTypeCleartextPassword)); err != nil {
				return nil, err
			}
			answer, err := backend.Receive()
			if err != nil {
				return nil, err // libpq: "fe_sendauth: no password supplied"
			}
			password, ok := answer.(*pgproto3.PasswordMessage)
			if !ok {
				return nil, errMessage
			}
			h.Token = password.Password
		}
		return s.open(h)
	}
}

// reply answers a command before the replication starts.
func reply(backend *pgproto3.Backend, log *Log, query string) {
	state := log.State()
	switch {
	case strings.HasPrefix(strings.ToUpper(query), "IDENTIFY_SYSTEM") && state.System != 0:
		row(backend, []string{"systemid", "timeline", "xlogpos", "dbname"},
			[][]byte{fmt.Append(nil, state.System), []byte("1"), []byte(state.Commit.String()), nil})
	case strings.HasPrefix(strings.ToUpper(query), "SHOW"): // the size of segments, and others
		row(backend, []string{"setting"}, [][]byte{[]byte("16MB")})
	default:
		backend.Send(&pgproto3.ErrorResponse{
			Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "55000", Message: "not possible yet: " + query,
		})
	}
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
}

func row(backend *pgproto3.Backend, names []string, values [][]byte) {
	const text = 25 // the type
	var fields []pgproto3.FieldDescription
	for _, name := range names {
		fields = append(fields, pgproto3.FieldDescription{Name: []byte(name), DataTypeOID: text, DataTypeSize: -1, TypeModifier: -1})
	}
	backend.Send(&pgproto3.RowDescription{Fields: fields})
	backend.Send(&pgproto3.DataRow{Values: values})
	backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
}

// stream sends committed WAL until the connection or ctx ends.
func stream(ctx context.Context, conn net.Conn, backend *pgproto3.Backend, log *Log, from LSN) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	backend.Send(&pgproto3.CopyBothResponse{})
	if err := backend.Flush(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		_, _ = io.Copy(io.Discard, conn) // its reports are of no use here
	}()
	defer func() {
		conn.Close()
		<-ended
	}()
	for ctx.Err() == nil {
		d, err := readLog(ctx, log, readRequest{From: from, Committed: true})
		if errors.Is(err, ErrMissing) {
			// The log is shorter than the replica. It gets nothing until that has changed.
			select {
			case <-ctx.Done():
			case <-time.After(waiting):
			}
			d = data{Commit: log.State().Commit}
		} else if err != nil {
			return err
		}
		var message []byte
		if len(d.Bytes) > 0 {
			message = binary.BigEndian.AppendUint64([]byte("w"), uint64(d.At))
		} else {
			message = []byte("k")
		}
		message = binary.BigEndian.AppendUint64(message, uint64(d.Commit))
		message = binary.BigEndian.AppendUint64(message, uint64(time.Since(epoch).Microseconds()))
		if len(d.Bytes) > 0 {
			message = append(message, d.Bytes...)
		} else {
			message = append(message, 0) // it need not answer
		}
		backend.Send(&pgproto3.CopyData{Data: message})
		if err := backend.Flush(); err != nil {
			return err
		}
		from += LSN(len(d.Bytes))
	}
	return ctx.Err()
}

// epoch is the beginning of PostgreSQL's time.
var epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
