package deployment

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// memory is what was applied, by Limiter and object, and how it looked then. Forgetting it costs one write, which
// changes nothing.
type memory struct {
	mu    sync.Mutex
	marks map[types.UID]map[string][sha256.Size]byte
}

func (m *memory) has(limiter types.UID, object client.Object, mark [sha256.Size]byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept, found := m.marks[limiter][described(object)]
	return found && kept == mark
}

func (m *memory) keep(limiter types.UID, object client.Object, mark [sha256.Size]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marks == nil {
		m.marks = map[types.UID]map[string][sha256.Size]byte{}
	}
	if m.marks[limiter] == nil {
		m.marks[limiter] = map[string][sha256.Size]byte{}
	}
	m.marks[limiter][described(object)] = mark
}

func (m *memory) drop(limiter types.UID, object client.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.marks[limiter], described(object))
}

func (m *memory) dropAll(limiter types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.marks, limiter)
}

// fields are what the object says as JSON, but for what the API server alone writes.
func fields(object client.Object) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("turn %s into JSON: %w", described(object), err)
	}
	delete(all, "status")
	if metadata, is := all["metadata"].(map[string]any); is {
		delete(metadata, "creationTimestamp")
	}
	return all, nil
}

// mark is the same as long as the same is wanted and shown in the fields in which something is wanted: what others add
// beside them is theirs.
func mark(want, shown map[string]any) [sha256.Size]byte {
	part := within(shown, want)
	delete(part, "apiVersion") // which an object does not always say that was read
	delete(part, "kind")
	text, err := json.Marshal([]any{want, part})
	if err != nil { // both came out of JSON
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(text)
}

// within returns of shown what has a place in shape too. What is not known to be shared with others is taken whole: a
// selector, say, with one label more is another one.
func within(shown, shape map[string]any) map[string]any {
	part := make(map[string]any, len(shape))
	for name, inner := range shape {
		value, there := shown[name]
		if !there {
			continue
		}
		part[name] = value
		wanted, is := inner.(map[string]any)
		found, too := value.(map[string]any)
		if is && too && shared(name) {
			part[name] = within(found, wanted)
		}
	}
	return part
}

// shared: others may have fields beside ours in what is called so.
func shared(name string) bool {
	switch name {
	case "metadata", "labels", "annotations", "spec", "template":
		return true
	default:
		return false
	}
}
