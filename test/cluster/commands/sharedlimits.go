package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/cluster/scenario"
)

// replicasShareLimits waits until each replica counts only those that exist: the previous step has scaled the Limiter, and a replica that has
// ended is counted for some time.
func (b *badDays) replicasShareLimits(ctx context.Context) error {
	want := fmt.Sprintf("\nweir_local_replicas %d\n", len(b.pods))
	for _, pod := range b.pods {
		f, err := b.Forward(ctx, "pod/"+pod, 9090)
		if err != nil {
			return err
		}
		_, err = scenario.Await(ctx, 40*time.Second, func(ctx context.Context) error {
			metrics, err := get(ctx, "http://"+f.Address+"/metrics")
			if err == nil && !strings.Contains(metrics, want) {
				err = fmt.Errorf("pod %s does not report%s", pod, strings.TrimRight(want, "\n"))
			}
			return err
		})
		if err = errors.Join(err, f.Stop()); err != nil {
			return err
		}
	}
	return nil
}

// get returns the body of a response with status 200.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, response.Status)
	}
	return string(text), err
}
