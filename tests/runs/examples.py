"""What tests of many runs share."""


def one_after_another(function, rounds, workers, look):
    """Do in this process what ``in_processes`` does in others."""
    return all(function(*call) is not False for calls in rounds for call in calls)
