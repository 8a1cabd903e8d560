package source

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
)

// SnapshotLag measures for how long the snapshot of a limiter has not had the active rules. It reads the files only if they have changed.
type SnapshotLag struct {
	snapshot snapshot
	files    []fs.FileInfo // at the last read
	revision string        // in the files; "" if they have no rules
	differs  time.Time     // when the snapshot was first found to differ; zero if it does not
}

// NewSnapshotLag returns the SnapshotLag of the snapshot at path.
func NewSnapshotLag(path string) *SnapshotLag { return &SnapshotLag{snapshot: snapshot{path: path}} }

// Measure returns for how long calls of Measure have found other rules in the snapshot than the active ones, or no rules. It is 0 if the rules
// are the same, or if no rules are active.
func (l *SnapshotLag) Measure(now time.Time, active string) time.Duration {
	if files := l.stat(); !slices.EqualFunc(files, l.files, sameFile) {
		l.files, l.revision = files, ""
		if parts, err := l.snapshot.read(); err == nil {
			l.revision, _ = decode(parts, rules.RevisionOf) // "" after an error
		}
	}
	switch {
	case active == "" || l.revision == active:
		l.differs = time.Time{}
	case l.differs.IsZero():
		l.differs = now
	default:
		return now.Sub(l.differs)
	}
	return 0
}

// stat describes the files of the snapshot.
func (l *SnapshotLag) stat() (files []fs.FileInfo) {
	for path := l.snapshot.path; len(files) < MaxSnapshotParts; path = fmt.Sprintf("%s.%d", l.snapshot.path, len(files)) {
		info, err := os.Stat(path)
		if err != nil {
			break
		}
		files = append(files, info)
	}
	return files
}

func sameFile(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}
