// Package contract holds the stand-ins for Neon's programs to recordings of the real ones: its
// test makes every recorded call again, in order, and compares status, fields, types, values and
// the calls of the control plane's hooks. The directory testdata/recordings says how the recordings were
// made.
package contract
