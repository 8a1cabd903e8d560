package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/weir-dev/weir/limiter/rules"
)

// MaxSnapshotParts is the number of files of a snapshot that a limiter reads. The operator writes no more.
const MaxSnapshotParts = 8

// snapshot is an optional file with a rule set in the format of rules.Encode. A limiter starts with it while Redis has no rules, and
// applies newer rules from it while it cannot fetch rules. A rule set that exceeds one file continues in the files with the suffixes .1, .2 and so on,
// up to MaxSnapshotParts files.
type snapshot struct {
	path    string
	parts   [][]byte // content of the files at the last read
	lastErr error    // result of the last read
}

// install applies the rule set in the files and returns its version. It returns the zero version if the files have not changed, or if the rule
// set does not replace the active one.
func (s *snapshot) install(apply ApplyShards, replaces func(version) bool) (version, error) {
	parts, err := s.read()
	if err != nil {
		return version{}, err
	}
	if s.parts != nil && slices.EqualFunc(parts, s.parts, bytes.Equal) {
		return version{}, s.lastErr
	}
	applied, err := s.apply(parts, apply, replaces)
	s.parts, s.lastErr = parts, err
	return applied, err
}

// read returns the content of the files.
func (s *snapshot) read() (parts [][]byte, err error) {
	for path := s.path; len(parts) < MaxSnapshotParts; path = fmt.Sprintf("%s.%d", s.path, len(parts)) {
		data, err := os.ReadFile(path) //nolint:gosec // the path comes from the command line
		switch {
		case err == nil:
			parts = append(parts, data)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("read snapshot: %w", err)
		case len(parts) == 0:
			return nil, missingSnapshotError(s.path)
		default:
			return parts, nil
		}
	}
	return parts, nil
}

// decode decodes the first parts that are complete: the others can remain from a larger rule set.
func decode[T any](parts [][]byte, one func(data []byte) (T, error)) (decoded T, err error) {
	var data []byte
	for _, part := range parts {
		data = append(data, part...)
		if decoded, err = one(data); err == nil {
			break
		}
	}
	return decoded, err
}

// named is a rule set with its revision.
type named struct {
	set      *rules.Sharded
	revision string
}

func decodeNamed(data []byte) (n named, err error) {
	n.set, n.revision, err = rules.DecodeShards(data)
	return n, err
}

func (s *snapshot) apply(parts [][]byte, apply ApplyShards, replaces func(version) bool) (version, error) {
	read, err := decode(parts, decodeNamed)
	found := version{revision: read.revision}
	if err == nil {
		found.sequence, err = rules.Sequence(bytes.Join(parts, nil))
	}
	if err == nil && !replaces(found) {
		return version{}, nil
	}
	if err == nil {
		err = apply(read.set, read.revision)
	}
	if err != nil {
		return version{}, fmt.Errorf("snapshot %s rejected: %w", s.path, err)
	}
	return found, nil
}

// missingSnapshotError is the error for a snapshot that does not exist. Its value is the path.
type missingSnapshotError string

func (m missingSnapshotError) Error() string { return "snapshot " + string(m) + " is missing" }
