package adminproxy

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/rules"
)

// resetRecord is what is recorded of a reset.
type resetRecord struct {
	request adminapi.ResetRequest
	// identifiers of the policies that were reset. If the request names a policy, it is the only one. Its identifier is empty if no replica
	// reports it.
	identifiers map[string]string
	// replicas is the number of replicas, done the number of those that have reset the counters.
	replicas, done int
	// rejected is true if all replicas have rejected the request, so that nothing was reset.
	rejected bool
	// reported is the size of identifiers, in bytes.
	reported int
}

func newResetRecord(request adminapi.ResetRequest) *resetRecord {
	r := &resetRecord{request: request, identifiers: map[string]string{}, rejected: true}
	if request.Policy != "" {
		r.identifiers[rules.WithoutRate(request.Policy)] = ""
	}
	return r
}

// add adds the answer of a replica.
func (r *resetRecord) add(replica *proxyapi.Replica) {
	r.replicas++
	if replica.Status < 400 || replica.Status >= 500 {
		r.rejected = false
	}
	var result resetResult
	if replica.Status != http.StatusOK || json.Unmarshal(replica.Body, &result) != nil {
		return
	}
	r.done++
	if named := rules.WithoutRate(r.request.Policy); named != "" {
		r.identifiers[named] = cmp.Or(result.Identifier, r.identifiers[named])
		return
	}
	for _, c := range result.Counters {
		if r.reported += len(c.Policy) + len(c.Identifier); r.reported > maxReported {
			return
		}
		r.identifiers[rules.WithoutRate(c.Policy)] = c.Identifier
	}
}
