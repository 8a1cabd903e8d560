package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weir-dev/weir/limiter/rules"
)

// snapshot is a file that holds a rule set as rules.Encode writes it: what a limiter begins with while Redis gives it
// none. It need not be there.
type snapshot struct {
	path string
	seen []byte // what the file held when it was read last
	said error  // what came of that
}

// install applies the file's Set, unless the file is what it was, and returns the revision: "" if there is nothing new.
func (s *snapshot) install(apply Apply) (revision string, err error) {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		s.seen = nil // it may come back as it was
		return "", missing(s.path)
	}
	if err != nil {
		return "", fmt.Errorf("read snapshot: %w", err)
	}
	if s.seen != nil && bytes.Equal(data, s.seen) {
		return "", s.said
	}
	revision, err = s.apply(data, apply)
	s.seen, s.said = data, err
	return revision, err
}

func (s *snapshot) apply(data []byte, apply Apply) (revision string, err error) {
	set, revision, err := rules.DecodeNamed(data)
	if err == nil {
		err = apply(set, revision)
	}
	if err != nil {
		return "", fmt.Errorf("snapshot %s refused: %w", s.path, err)
	}
	return revision, nil
}

// missing is the path of a snapshot that is not there, as an error.
type missing string

func (m missing) Error() string { return "snapshot " + string(m) + " is missing" }
