package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli/ask"
	"github.com/weir-dev/weir/cmd/kubectl-weir/status"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
)

// bypassesTimeout bounds the calls of the operator: the rest of the status must not wait for it.
const bypassesTimeout = 7 * time.Second

// bypasses returns the active bypasses of the Limiters, and of which Limiters they are unknown.
func (f *statusFlags) bypasses(ctx context.Context, limiters []v1alpha1.Limiter) (list []status.Bypass, unknown []status.UnknownBypass) {
	if len(limiters) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, bypassesTimeout)
	defer cancel()
	base, client, stop, err := f.cluster.operatorClient(ctx)
	if err == nil {
		defer stop()
		defer client.CloseIdleConnections()
	}
	var lock sync.Mutex
	var wg sync.WaitGroup
	for i := range limiters {
		limiter := &limiters[i]
		wg.Go(func() {
			own, err := []status.Bypass(nil), err
			if err == nil {
				own, err = bypassesOf(ctx, client, base, limiter)
			}
			lock.Lock()
			defer lock.Unlock()
			list = append(list, own...)
			if err != nil {
				unknown = append(unknown, status.UnknownBypass{Limiter: limiter.Namespace + "/" + limiter.Name, Message: err.Error()})
			}
		})
	}
	wg.Wait()
	return list, unknown
}

func bypassesOf(ctx context.Context, client *http.Client, base string, limiter *v1alpha1.Limiter) ([]status.Bypass, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, limiterURL(base, limiter.Namespace, limiter.Name, ask.BypassesPath), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the operator does not answer: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer proxyapi.Answer
	if err := ask.Decode(response, &answer); err != nil {
		return nil, err
	}
	bypasses, err := ask.Bypasses(&answer)
	if err != nil {
		return nil, err
	}
	var list []status.Bypass
	for _, b := range bypasses {
		if b.IsActive(time.Now()) {
			list = append(list, status.Bypass{
				Limiter: answer.Limiter, Name: b.Name, Policy: b.Policy, Blocks: b.Blocks, Identifier: b.Identifier, AllIdentifiers: b.AllIdentifiers, Reason: b.Reason,
				CreatedBy: b.CreatedBy, ExpiresAt: b.ExpiresAt,
			})
		}
	}
	return list, nil
}
