package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weir-dev/weir/limiter/rules"
)

// snapshot is an optional file with a rule set in the format of rules.Encode. A limiter starts with it while Redis has no rules.
type snapshot struct {
	path    string
	data    []byte // content of the file at the last read
	lastErr error  // result of the last read
}

// install applies the rule set in the file and returns its revision. It returns "" if the file has not changed.
func (s *snapshot) install(apply Apply) (revision string, err error) {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", missingSnapshotError(s.path)
	}
	if err != nil {
		return "", fmt.Errorf("read snapshot: %w", err)
	}
	if s.data != nil && bytes.Equal(data, s.data) {
		return "", s.lastErr
	}
	revision, err = s.apply(data, apply)
	s.data, s.lastErr = data, err
	return revision, err
}

func (s *snapshot) apply(data []byte, apply Apply) (revision string, err error) {
	set, revision, err := rules.DecodeNamed(data)
	if err == nil {
		err = apply(set, revision)
	}
	if err != nil {
		return "", fmt.Errorf("snapshot %s rejected: %w", s.path, err)
	}
	return revision, nil
}

// missingSnapshotError is the error for a snapshot that does not exist. Its value is the path.
type missingSnapshotError string

func (m missingSnapshotError) Error() string { return "snapshot " + string(m) + " is missing" }
