package format

// albLayoutText is a line of an Application Load Balancer of AWS, in the notation of nginx. Fields that AWS has added later follow the time of the
// request.
const albLayoutText = `$type $time_iso8601 $elb $client_and_port $target $request_processing_time $target_processing_time $response_processing_time $status ` +
	`$target_status $received $sent "$request" "$http_user_agent" $ssl_cipher $ssl_protocol $target_group "$trace" "$domain_name" "$certificate" ` +
	`$rule $start_iso`

func albLayout() (*layout, error) {
	l, err := compileLayout(albLayoutText+" $more", nginxVariable)
	if err != nil {
		return nil, err
	}
	l.escape = backslashes
	return l, nil
}
